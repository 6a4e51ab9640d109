-- A partner's inbox takes messages.
SELECT medusa.resume_delivery(:partner)
