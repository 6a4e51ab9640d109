"""A shop: orders with their prices, and those that nobody has paid."""

from medusa_core.network import Aggregate, Join, Lookup, Map, Network, Output, Source

orders = Source(
    name="orders",
    columns={
        "at": "timestamp",
        "order_id": "bigint",
        "customer": "string",
        "product": "string",
        "quantity": "int",
    },
    time="at",
    late="revise",
    late_every="1s",
)
payments = Source(
    name="payments",
    columns={
        "at": "timestamp",
        "order_id": "bigint",
        "method": "string",
    },
    time="at",
)
products = Source(
    name="products",
    columns={
        "at": "timestamp",
        "product": "string",
        "category": "string",
        "price": "decimal(10,2)",
    },
    time="at",
)
priced = Lookup(name="priced", input="orders", table="products", on=("product",), max_age="1d")
amounts = Map(
    name="amounts",
    input="priced",
    columns={
        "order_id": "order_id",
        "customer": "customer",
        "category": "category",
        "amount": "cast(quantity * price as decimal(12,2))",
    },
)
per_category = Aggregate(
    name="per_category",
    input="amounts",
    size="10m",
    group_by=("category",),
    columns={"orders": "count(*)", "revenue": "sum(amount)"},
)
unpaid = Join(
    name="unpaid",
    left="amounts",
    right="payments",
    on=("order_id",),
    within=("0s", "10m"),
    how="anti",
)

network = Network(
    name="PROJECT_NAME",
    sources=(orders, payments, products),
    boxes=(priced, amounts, per_category, unpaid),
    outputs=(
        Output(name="revenue", input="per_category"),
        Output(name="unpaid_orders", input="unpaid"),
    ),
    bucket="1m",
)
