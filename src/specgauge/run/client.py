"""The few plain HTTP calls to vLLM outside the load: version, tokenize, prefix cache, margins."""

from __future__ import annotations

import time
from typing import Any

import requests

from specgauge.config.prompts import Prompt
from specgauge.errors import EnvironmentFault, UsageError
from specgauge.scrape.parse import samples

_TIMEOUT_S = 60
_RESET_TRIES = 50
_RESET_EVERY_S = 0.1
_PREFIX_CACHE = "vllm:prefix_cache"


class Client:
    """One server's base URL and the calls to it."""

    def __init__(self, url: str, model: str) -> None:
        self._url = url
        self._model = model
        self._http = requests.Session()
        # A proxy from the environment must not stand between us and the server.
        self._http.trust_env = False

    def version(self) -> str | None:
        """vLLM's version, or None if it does not say."""
        try:
            answer = self._http.get(f"{self._url}/version", timeout=_TIMEOUT_S)
            return str(answer.json()["version"])
        except (requests.RequestException, ValueError, KeyError, TypeError):
            return None

    def tokenize(
        self, prompt: Prompt, chat_template: bool, template_kwargs: dict[str, Any], room: int
    ) -> tuple[int, ...]:
        """Token ids of ``prompt``, the model's chat template applied if asked for.

        Args:
            prompt: what to tokenize.
            chat_template: apply the model's chat template up to the assistant's turn.
            template_kwargs: its extra variables.
            room: output tokens that must still fit into the model's context.

        Raises:
            UsageError: prompt and output do not fit together, or the template refuses it.
            EnvironmentFault: the server did not answer.
        """
        body: dict[str, Any] = {"model": self._model}
        if chat_template:
            body |= {"messages": list(prompt.messages), "add_generation_prompt": True}
            if template_kwargs:
                body["chat_template_kwargs"] = template_kwargs
        else:
            body["prompt"] = prompt.text
        try:
            answer = self._http.post(f"{self._url}/tokenize", json=body, timeout=_TIMEOUT_S)
            reply = answer.json()
        except (requests.RequestException, ValueError) as error:
            raise EnvironmentFault(f"{self._url}/tokenize did not answer: {error}") from error
        if 400 <= answer.status_code < 500:
            raise UsageError(f"prompt {prompt.id!r}: the server cannot tokenize it: {reply}")
        try:
            tokens = tuple(int(token) for token in reply["tokens"])
            limit = reply.get("max_model_len")
        except (KeyError, TypeError, ValueError, AttributeError):
            raise EnvironmentFault(
                f"{self._url}/tokenize: not an answer of vLLM's: {str(reply)[:300]}"
            ) from None
        if limit is not None and len(tokens) + room > limit:
            raise UsageError(
                f"prompt {prompt.id!r} has {len(tokens)} tokens; with {room} output tokens it does "
                f"not fit into the server's {limit} ('max-model-len' in the model's server_args)"
            )
        return tokens

    def reset_prefix_cache(self) -> None:
        """Empty the prefix cache; waits a little while blocks are still held.

        Raises:
            EnvironmentFault: the server does not offer it, or never let go of its blocks.
        """
        why = ""
        for _ in range(_RESET_TRIES):
            try:
                answer = self._http.post(f"{self._url}/reset_prefix_cache", timeout=_TIMEOUT_S)
            except requests.RequestException as error:
                raise EnvironmentFault(f"/reset_prefix_cache: {error}") from error
            if answer.status_code == 200 and b"false" not in answer.content:
                return  # older releases answer with an empty body, newer with {"success": …}
            if answer.status_code == 404:
                raise EnvironmentFault(
                    "the server has no /reset_prefix_cache: vLLM offers it only with "
                    "VLLM_SERVER_DEV_MODE=1; use 'prefix_cache: keep' with this server"
                )
            why = f"status {answer.status_code}, {answer.text[:100]}"
            time.sleep(_RESET_EVERY_S)
        raise EnvironmentFault(f"the prefix cache could not be reset: {why}")

    def prefix_cache(self) -> tuple[float, float] | None:
        """(queries, hits) in prompt tokens since the server's start; None if it does not say."""
        try:
            answer = self._http.get(f"{self._url}/metrics", timeout=_TIMEOUT_S)
            counted: dict[str, float] = {}
            for name, _, value in samples(answer.text):
                counted[name] = counted.get(name, 0.0) + value
            return counted[f"{_PREFIX_CACHE}_queries_total"], counted[f"{_PREFIX_CACHE}_hits_total"]
        except (requests.RequestException, ValueError, KeyError):
            return None

    def margin(self, token_ids: list[int]) -> float | None:
        """How far the two likeliest next tokens are apart, in nats; None if the server won't say.

        Log-probabilities of the target model, whatever drafts.
        """
        body = {"model": self._model, "prompt": token_ids, "max_tokens": 1, "temperature": 0,
                "logprobs": 2}  # fmt: skip
        try:
            answer = self._http.post(f"{self._url}/v1/completions", json=body, timeout=_TIMEOUT_S)
            best = answer.json()["choices"][0]["logprobs"]["top_logprobs"][0]
            first, second = sorted((float(value) for value in best.values()), reverse=True)[:2]
        except (requests.RequestException, ValueError, KeyError, IndexError, TypeError):
            return None
        return first - second

    def close(self) -> None:
        """Close the connection."""
        self._http.close()
