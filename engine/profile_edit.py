"""Changes one key of a `.properties` text and leaves every other byte as it is."""

from io import StringIO


def with_property(data: bytes, key: str, value: str | None) -> bytes:
    """The file with the key set to a value, or without it for None; comments, order and line ends stay.

    The line that counts, the last one of the key, is changed; a new key comes last. What is not ASCII in the new line
    is written as `\\uXXXX`, so it reads the same in either encoding of the file.
    """
    import javaproperties

    # Latin-1 maps each byte to one character and back, also where the file is UTF-8.
    text = data.decode("iso-8859-1")
    end = "\r\n" if "\r\n" in text else "\n"
    elements = list(javaproperties.parse(StringIO(text, newline="")))
    sources = [element.source for element in elements]
    places = [
        index
        for index, element in enumerate(elements)
        if isinstance(element, javaproperties.KeyValue) and element.key == key
    ]
    if value is None:
        sources = [source for index, source in enumerate(sources) if index not in places]
    else:
        line = javaproperties.join_key_value(key, value) + end
        if places:
            sources[places[-1]] = line
        else:
            if sources and not sources[-1].endswith(("\n", "\r")):
                sources[-1] += end
            sources.append(line)
    return "".join(sources).encode("iso-8859-1")
