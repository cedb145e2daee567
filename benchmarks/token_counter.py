"""P10: the token counter beside tiktoken's `encode_ordinary`: 16 KB while a person types, and 1 MB.

The window pays with the time of its own thread, so that is what is measured for the 16 KB; the count itself runs
beside it. The 1 MB is wall time, each beside its peer in turn.

Usage: python benchmarks/token_counter.py [--quick]
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable
from statistics import median

from table import Table

from engine.fallback_tokenizer import fallback_count
from engine.profile import ModelProfile, Provider
from engine.tokenizers import Tokenizers, load_encoding

ENCODING = "o200k_base"
SENTENCE = "The quick brown fox (no. 42) jumps over {{count}} lazy dogs; then it sleeps until 7 o'clock.\n"
CHINESE = "今天天气不错，我们去公园散步吧。\n"


def of_size(sentence: str, size: int) -> str:
    """Text of about that many bytes."""
    return sentence * (size // len(sentence.encode()))


def profile(encoding: str) -> ModelProfile:
    return ModelProfile(name="p", category="M", provider=Provider.OPENAI_CHAT, encoding=encoding)


async def own_thread(counter: Tokenizers, of: ModelProfile, text: str, rounds: int) -> float:
    """Milliseconds of this thread for one count, while a character is typed before each."""
    spent = []
    for number in range(rounds):
        typed = text + str(number)
        start = time.thread_time()
        await counter.count(of, typed)
        spent.append((time.thread_time() - start) * 1e3)
    return median(spent)


async def wall(count: Callable[[], object], peer: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Milliseconds of both at their best, measured in turn."""
    ours, theirs = [], []
    for _ in range(rounds):
        start = time.perf_counter()
        done = count()
        if asyncio.iscoroutine(done):
            await done
        between = time.perf_counter()
        peer()
        ours.append((between - start) * 1e3)
        theirs.append((time.perf_counter() - between) * 1e3)
    return min(ours), min(theirs)


async def measure(table: Table, rounds: int) -> None:
    counter, exact, estimated = Tokenizers(), profile(ENCODING), profile("")
    encoding = load_encoding(ENCODING)
    for name, sentence in (("English", SENTENCE), ("Chinese", CHINESE)):
        text = of_size(sentence, 16 * 1024)
        _, whole = await wall(lambda: None, lambda text=text: encoding.encode_ordinary(text), rounds)
        for kind, of in (("exact", exact), ("estimate", estimated)):
            spent = await own_thread(counter, of, text, rounds)
            peer = f"encode_ordinary {whole:.2f} ms"
            table.row(
                f"16 KB {name}, {kind}, this thread", f"{spent:.2f} ms", peer, spent / whole, "<= 1 ms", spent <= 1
            )
    for name, sentence in (("English", SENTENCE), ("Chinese", CHINESE)):
        text = of_size(sentence, 1024 * 1024)
        fewer = max(7, rounds // 5)
        ours, theirs = await wall(
            lambda text=text: counter.count(exact, text), lambda text=text: encoding.encode_ordinary(text), fewer
        )
        table.row(
            f"1 MB {name}, exact, wall",
            f"{ours:.0f} ms",
            f"encode_ordinary {theirs:.0f} ms",
            ours / theirs,
            "<= 1.2x",
            ours <= 1.2 * theirs,
        )
        spent = await own_thread(counter, exact, text, fewer)
        table.row(f"1 MB {name}, exact, this thread", f"{spent:.2f} ms", "", None, "", None)
        estimate, _ = await wall(lambda text=text: fallback_count(text), lambda: None, fewer)
        table.row(f"1 MB {name}, estimate", f"{estimate:.0f} ms", "", None, "", None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 20 if parser.parse_args().quick else 100
    table = Table("P10: token counter")
    asyncio.run(measure(table, rounds))
    return table.finish()


if __name__ == "__main__":
    sys.exit(main())
