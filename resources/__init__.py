"""Bundled data: icons, sample flows, tokenizer vocabularies, chat templates. Read with `engine.bundled`."""
