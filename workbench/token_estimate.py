"""How many tokens streamed text may have, before the server has counted. Shown with `~`, the same figure everywhere."""

LONG_PIECE = 12
"""Characters from which a piece is taken for several tokens."""
CHARACTERS_PER_TOKEN = 4


def piece_tokens(text: str) -> int:
    """About how many tokens a streamed piece is: one, or by its length when a server sends several at once."""
    if not text:
        return 0
    return 1 if len(text) <= LONG_PIECE else -(-len(text) // CHARACTERS_PER_TOKEN)
