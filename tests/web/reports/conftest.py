from tests.serving.control.conftest import migrations_run_once, opener, small

__all__ = ["migrations_run_once", "opener", "small"]
