-- Say what shall run in a lane; the number of what is desired.
SELECT medusa.desire_job(:lane, :is_desired, :is_lasting, :because, :who, :renews);
