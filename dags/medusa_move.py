"""A fragment is handed over to a partner or goes back, by form, as `medusa move` does."""

from datetime import timedelta

from airflow.sdk import DAG

from pipelines.airflow.act_operators import MoveOperator
from pipelines.airflow.forms import choice, name, one_participant, optional_text

with DAG(
    dag_id="medusa_move",
    schedule=None,
    catchup=False,
    max_active_runs=1,
    tags=["medusa", "act", "market"],
    default_args={"retries": 2, "retry_delay": timedelta(seconds=10)},
    params={
        "participant": one_participant("Participant", "Whose home it is begun or ended in; empty: "
                                       "the only one here."),
        "fragment": name("Fragment", "FRAGMENT or NETWORK.FRAGMENT."),
        "action": choice("Action", "to: a partner computes it, under a movement contract in force; "
                         "back: its payer computes it again.", ["to", "back"]),
        "partner": name("Partner", "Who is to compute it; empty with back."),
        "because": optional_text("Because", "Why, in a sentence; it is recorded with the move, and "
                                 "the partner is sent it. May be empty."),
    },
    doc_md="""
Hands a fragment over to a partner under a movement contract, or ends its move, as `medusa move`
does. The participants carry it out while they run: the page *Contracts and money* lists the move
with its state. The reason of the move is *by hand*, a mark of the run and what *Because* says; the
partner is sent it. Who triggered the run is kept by Airflow and not sent.

**When it is red** there is no such fragment, no contract in force that lets it move, or the partner
may not read what it needs: the error says which. A fragment that is with the partner already is
left alone. See docs/bilateral.md.
""",
):  # fmt: skip
    MoveOperator(task_id="move")
