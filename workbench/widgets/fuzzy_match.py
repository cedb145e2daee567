"""How well a text answers what is typed into a search field."""


def match(query: str, text: str) -> tuple[int, tuple[int, ...]] | None:
    """Fuzzy match: a score (larger is better) and the hit positions, None when a letter is missing.

    Every letter of the query must occur in order. A run of letters as one piece, and hits at word starts, score higher.
    """
    needle, hay = query.lower(), text.lower()
    if not needle.strip():
        return 0, ()
    start = hay.find(needle)
    if start >= 0:
        at_word = start == 0 or not hay[start - 1].isalnum()
        return 1000 + (200 if at_word else 0) - start, tuple(range(start, start + len(needle)))
    hits: list[int] = []
    position = -1
    for letter in needle:
        if letter == " ":
            continue
        position = hay.find(letter, position + 1)
        if position < 0:
            return None
        hits.append(position)
    starts = sum(1 for hit in hits if hit == 0 or not hay[hit - 1].isalnum())
    return 100 * starts - (hits[-1] - hits[0]), tuple(hits)
