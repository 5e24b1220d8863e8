"""From a manifest to a checked, frozen Query: manifest, SQL, schema, expressions. Pure."""
