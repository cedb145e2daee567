"""The page *Prompts*: the texts of the prompt library, edited, checked, previewed and taken back."""
