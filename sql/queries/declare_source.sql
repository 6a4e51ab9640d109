-- Say how a source is fed.
SELECT medusa.declare_source(:stream, :document);
