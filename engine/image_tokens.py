"""What pictures cost in tokens. Sources: OpenAI, images and vision (tiles of 512); Anthropic, vision (pixels / 750)."""

from engine.conversation import ImagePart
from engine.profile import ModelProfile, ProfileOptions, Provider

UNKNOWN_SIZE = 1024
"""Tokens of a picture whose size nobody knows and that nobody asks to look at closely."""
LONGEST_SIDE, SHORTEST_SIDE, TILE = 2048, 768, 512
PIXELS_PER_TOKEN = 750


def image_tokens(image: ImagePart, profile: ModelProfile) -> int:
    """Tokens of a picture for the model of a profile, by the formula of its service."""
    formula = pixel_tokens if profile.provider == Provider.ANTHROPIC else tile_tokens
    return formula(image, profile.options)


def tile_tokens(image: ImagePart, options: ProfileOptions) -> int:
    """Tokens by tiles of 512 × 512 after scaling down; whole numbers throughout, nothing is scaled up."""
    base, tile = options.image_base_tokens, options.image_tile_tokens
    if image.detail == "low":
        return base
    width, height = image.width, image.height
    if width <= 0 or height <= 0:
        return base + 4 * tile if image.detail == "high" else UNKNOWN_SIZE
    if (longest := max(width, height)) > LONGEST_SIDE:
        width, height = max(1, width * LONGEST_SIDE // longest), max(1, height * LONGEST_SIDE // longest)
    if (shortest := min(width, height)) > SHORTEST_SIDE:
        width, height = width * SHORTEST_SIDE // shortest, height * SHORTEST_SIDE // shortest
    return base + tile * -(-width // TILE) * -(-height // TILE)


def pixel_tokens(image: ImagePart, options: ProfileOptions) -> int:
    """Tokens by area after scaling down to the longest edge the model looks at."""
    width, height, most = image.width, image.height, options.image_max_tokens
    if width <= 0 or height <= 0:
        return most
    if (longest := max(width, height)) > options.image_max_edge:
        width, height = width * options.image_max_edge // longest, height * options.image_max_edge // longest
    return min(most, -(-width * height // PIXELS_PER_TOKEN))
