"""The page *Profiles*: each as a form and as its text, tested on its server; which one answers for a category."""
