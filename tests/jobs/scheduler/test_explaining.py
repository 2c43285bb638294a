"""What is said of one that waits is so: of labels, of models, of shares that others borrow."""

from falaj.base.clock import MINUTE, SECOND
from falaj.jobs.scheduler.values import CARD, Cohort, Node, Queue, Quota, Shape
from tests.jobs.scheduler.clusters import Cluster, a_job, a_node, a_queue

ALL = Cohort(name="all", quotas={})


def told(cluster: Cluster, job: str) -> str:
    wait = cluster.scheduler.why(job)
    assert wait is not None
    return wait.sentence


def test_labels_of_other_projects_are_neither_kept_apart_from_nor_told() -> None:
    cluster = Cluster(nodes=[a_node(cards=2)], queues=[a_queue()])
    cluster.submit(a_job("theirs", label="a", project="other"))
    cluster.submit(a_job("mine", label="a"))
    cluster.settle()
    cluster.submit(a_job("next", apart_from=("a",)))
    cluster.settle()
    assert told(cluster, "next") == "No host has room now for 1 GPU."


def test_one_that_lacks_cards_of_the_models_it_has_quota_for_is_not_told_of_a_reserved_start() -> None:
    quotas = {"gpu:A100": Quota(nominal=2 * CARD), "gpu:H100": Quota(nominal=0)}
    nodes = [a_node("h", cards=1), Node(name="a", zone="here", cpu_milli=1000, memory_mib=1024, cards=("A100",))]
    cluster = Cluster(nodes=nodes, queues=[Queue(name="q", quotas=quotas)])
    for name in ("first", "second"):
        cluster.submit(a_job(name, queue="q", shape=Shape(cpu_milli=0, memory_mib=0, gpus=1, models=("A100",))))
    cluster.settle()
    assert list(cluster.running) == ["first"]
    assert (cluster.why("second"), told(cluster, "second")) == ("room", "No host has room now for 1 A100 GPU.")


def lent(*, reclaim: bool = True) -> Cluster:
    queues = [a_queue("mine", gpus=1, cohort="all", reclaim=reclaim), a_queue("guests", gpus=1, cohort="all")]
    cluster = Cluster(nodes=[a_node(cards=2)], queues=queues, cohorts=[ALL])
    for name in ("one", "two"):
        cluster.submit(a_job(name, queue="guests", user="somebody"))
    cluster.settle()
    return cluster


def test_a_share_that_is_lent_is_told_with_the_moment_at_which_it_is_asked_back() -> None:
    cluster = lent()
    asked_back = str(type(cluster.now)(cluster.now + MINUTE))[:19]
    cluster.now = type(cluster.now)(cluster.now + 5 * SECOND)
    cluster.submit(a_job("j", queue="mine", at=cluster.now))
    cluster.settle()
    words = told(cluster, "j")
    assert words.startswith(f"Queue guests borrows the share of queue mine; it is asked back at {asked_back}Z, ")
    assert not any(secret in words for secret in ("one", "two", "somebody"))
    cluster.now = type(cluster.now)(cluster.now + MINUTE)
    cluster.settle()
    assert "j" in cluster.running


def test_a_queue_that_does_not_reclaim_is_told_that_others_borrow_what_it_is_owed() -> None:
    cluster = lent(reclaim=False)
    for name, preemptible in (("j", True), ("k", False)):
        cluster.submit(a_job(name, queue="mine", preemptible=preemptible))
        cluster.settle()
        assert (
            told(cluster, name) == "It needs 1 GPU; queue mine uses 0 GPUs of its 1 GPU and other queues borrow what it needs."
        )
