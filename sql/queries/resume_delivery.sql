-- A partner's inbox takes messages.
SELECT medusa_market.resume_delivery(:partner)
