-- Adds the NVLink domain of hosts to the inventory.

ALTER TABLE inventory_devices ADD COLUMN IF NOT EXISTS domain LowCardinality(String) AFTER tenant;
