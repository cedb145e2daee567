"""The profile `tested` of a data folder, for flows that run from the command line."""

from pathlib import Path


def write_tested(home: Path, url: str, **more: str) -> None:
    """Write the profile `tested`: $1 for 1,000 tokens in, answers free, no retries, no limit of requests at a time."""
    keys = {
        "modelProvider": "OAI_CHAT_COMPLETION",
        "modelName": "m",
        "url": url,
        "maxTokens": "50",
        "temperature": "0",
        "topP": "1",
        "maxRetries": "0",
        "maxConcurrent": "0",
        "cost1MInTokens": "1000",
        "cost1MOutTokens": "0",
    } | more
    (home / "profiles").mkdir(parents=True, exist_ok=True)
    text = "".join(f"{key}={value}\n" for key, value in keys.items())
    (home / "profiles" / "tested.properties").write_text(text)
