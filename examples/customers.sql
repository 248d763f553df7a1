-- The table that customers.yaml fills. Yours is there already: change the file to its names.
CREATE SCHEMA "Sales";

CREATE TABLE "Sales"."Customers" (
    "customerId" bigint PRIMARY KEY,
    "firstName" text NOT NULL,
    "creditLimit" numeric(12,2) NOT NULL,
    born date,
    notes text
);
