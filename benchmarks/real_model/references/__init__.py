"""Reference agents: the shortest programs that get small jobs done, to compare with. Standard library only."""
