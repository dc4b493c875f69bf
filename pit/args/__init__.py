"""What users type: options, entities, properties, variables, paths on the head."""
