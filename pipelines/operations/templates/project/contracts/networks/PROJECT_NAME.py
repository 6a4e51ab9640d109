"""Which services fail: requests and errors per service and minute, and the minutes to look at."""

from medusa_core.network import Aggregate, Filter, Network, Output, Source

requests = Source(
    name="requests",
    columns={"at": "timestamp", "service": "string", "status": "int", "duration_ms": "int"},
    time="at",
)
per_minute = Aggregate(
    name="per_minute",
    input="requests",
    size="1m",
    group_by=("service",),
    columns={
        "requests": "count(*)",
        "errors": "count(CASE WHEN status >= 500 THEN 1 END)",
        "slowest_ms": "max(duration_ms)",
    },
)
failing = Filter(name="failing", input="per_minute", cases={"yes": "errors * 5 >= requests"})

network = Network(
    name="PROJECT_NAME",
    sources=(requests,),
    boxes=(per_minute, failing),
    outputs=(
        Output(name="service_minutes", input="per_minute"),
        Output(name="failing_services", input="failing"),
    ),
)
