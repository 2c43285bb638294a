from tests.serving.control.conftest import migrations_run_once, opener, platform, small

__all__ = ["migrations_run_once", "opener", "platform", "small"]
