"""The page *Tools*: what models may call, a form to try it, and what was approved."""
