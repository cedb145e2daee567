"""What streams that stand around another stream have in common."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from types import TracebackType

from engine.completion import Chunk, Completion, Stream


class StreamLayer:
    """A stream around another one; `_run` sets `_inner` as soon as there is one."""

    def __init__(self) -> None:
        self._inner: Stream | None = None
        self._completion: Completion | None = None
        self._chunks = self._run()

    async def __aenter__(self) -> "StreamLayer":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._chunks.aclose()

    def __aiter__(self) -> AsyncIterator[Chunk]:
        return self._chunks

    def _run(self) -> AsyncGenerator[Chunk, None]:
        raise NotImplementedError

    @property
    def completion(self) -> Completion:
        """The whole answer; raises RuntimeError before the stream is exhausted."""
        if self._completion is None:
            raise RuntimeError("the stream is not exhausted")
        return self._completion

    @property
    def so_far(self) -> Completion:
        """What has arrived, with the tokens it cost: for a stream that failed or was left early."""
        return self._completion or (Completion() if self._inner is None else self._inner.so_far)

    @property
    def warnings(self) -> Sequence[str]:
        """What a person should know although the answer came."""
        return () if self._inner is None else self._inner.warnings
