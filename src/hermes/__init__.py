"""Hermes: the memory and context system for language-model agents."""

__version__ = "0.1.0"
