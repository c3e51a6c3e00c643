"""Small matrix products are computed by one thread: several wait for each other beside other processes."""

from threadpoolctl import threadpool_info

from rejoinder.blas import SMALL, threads_for


def blas_threads():
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


def test_small_products_take_one_thread_and_large_ones_all():
    before = blas_threads()
    with threads_for(SMALL):
        assert blas_threads() <= {1}
    with threads_for(SMALL + 1):
        assert blas_threads() == before
    assert blas_threads() == before
