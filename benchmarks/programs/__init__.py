"""Published programs, unmodified, on the virtual SM100: lists of them, a runner, a generated page.

Nothing of theirs is here. ``lists`` says which files of which revision; the runner takes them from
copies of their repositories, or from packages, and keeps what it builds out of the tree.
"""
