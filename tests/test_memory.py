import platform

from rejoinder.memory import keep_memory


def test_freed_memory_is_kept_where_the_allocator_is_glibcs():
    assert keep_memory() == (platform.system() == "Linux" and platform.libc_ver()[0] == "glibc")
