from support.cli import same_threads, train

__all__ = ["same_threads", "train"]
