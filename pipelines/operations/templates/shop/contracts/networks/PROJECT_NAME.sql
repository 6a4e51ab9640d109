-- A shop: orders with their prices, and those that nobody has paid: PROJECT_NAME.py in SQL.

CREATE NETWORK PROJECT_NAME WITH (bucket = '1m');

CREATE SOURCE orders (at TIMESTAMP, order_id BIGINT, customer STRING, product STRING, quantity INT)
WITH (time = 'at', late = 'revise', late_every = '1s');

CREATE SOURCE payments (at TIMESTAMP, order_id BIGINT, method STRING)
WITH (time = 'at');

CREATE SOURCE products (at TIMESTAMP, product STRING, category STRING, price DECIMAL(10, 2))
WITH (time = 'at');

CREATE VIEW amounts AS
SELECT o.order_id, o.customer, p.category, CAST(o.quantity * p.price AS DECIMAL(12, 2)) AS amount
FROM orders AS o
LEFT JOIN products FOR SYSTEM_TIME AS OF o.at AS p
    ON o.product = p.product AND p.at >= o.at - INTERVAL '1' DAY;

CREATE STREAM revenue AS
SELECT window_start, category, count(*) AS orders, sum(amount) AS revenue
FROM TUMBLE(TABLE amounts, INTERVAL '10' MINUTES)
GROUP BY window_start, category;

CREATE STREAM unpaid_orders AS
SELECT * FROM amounts AS a
ANTI JOIN payments AS p
    ON a.order_id = p.order_id AND p.stime BETWEEN a.stime AND a.stime + INTERVAL '10' MINUTES;
