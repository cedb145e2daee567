"""Flows: agents linked by routes, their files, and the executor that walks them."""
