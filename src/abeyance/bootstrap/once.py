"""What happens once in all the processes of a server: shared memory, made before they are forked."""

import mmap


class Once:
    """Whether it has happened, in this process or in one that was forked since this was made."""

    def __init__(self) -> None:
        self._flag = mmap.mmap(-1, 1)

    def __bool__(self) -> bool:
        return self._flag[0] == 1

    def remember(self) -> None:
        """It has."""
        self._flag[0] = 1
