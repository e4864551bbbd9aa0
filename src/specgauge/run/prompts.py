"""The run's prompts as token ids: made by its first server, the same for all others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from specgauge.config.prompts import Prompt
from specgauge.config.resolve import Resolved
from specgauge.errors import EnvironmentFault
from specgauge.record.atomic import write_parquet
from specgauge.record.schema import PROMPTS
from specgauge.run.client import Client
from specgauge.run.requests import Tokenized


class PromptTokens:
    """Asks the server's tokenizer, and keeps the measured prompts' answers in ``path``."""

    def __init__(self, resolved: Resolved, client: Client, path: Path) -> None:
        self._resolved = resolved
        self._client = client
        self._path = path

    def measured(self) -> list[Tokenized]:
        """The prompts of the experiment's loads, in order.

        Raises:
            EnvironmentFault: this server tokenizes otherwise than the run's first one did.
            UsageError: too few prompts, or one that does not fit the model.
        """
        experiment = self._resolved.experiment
        count = max(load.requests for load in experiment.loads)
        prompts = self._resolved.prompts.first(count, "the experiment")
        kept = self._kept(prompts)
        if kept is not None:
            if self.of(prompts[0], experiment.output_tokens) != kept[0]:
                raise EnvironmentFault(
                    f"this server tokenizes prompt {prompts[0].id!r} differently than the "
                    f"run's first one did ({self._path}): another tokenizer or chat template"
                )
            return kept
        made = [self.of(prompt, experiment.output_tokens) for prompt in prompts]
        rows = [
            {"prompt_id": p.id, "category": p.category, "text": p.text, "token_ids": list(ids)}
            for p, ids in made
        ]
        write_parquet(self._path, pa.Table.from_pylist(rows, schema=PROMPTS))
        return made

    def of(self, prompt: Prompt, room: int) -> Tokenized:
        """One prompt with its token ids; ``room`` tokens of output must fit behind it."""
        kwargs = dict(self._resolved.model.chat_template_kwargs)
        chat = self._resolved.experiment.chat_template
        return prompt, self._client.tokenize(prompt, chat, kwargs, room)

    def _kept(self, prompts: Sequence[Prompt]) -> list[Tokenized] | None:
        if not self._path.exists():
            return None
        rows = pq.read_table(self._path).to_pylist()
        ids = {row["prompt_id"]: tuple(row["token_ids"]) for row in rows}
        if not all(prompt.id in ids for prompt in prompts):
            return None
        return [(prompt, ids[prompt.id]) for prompt in prompts]
