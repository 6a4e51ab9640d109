-- Take a fragment back that has moved.
SELECT medusa_market.return_fragment(:fragment, :reason);
