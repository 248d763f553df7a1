SELECT * FROM {staging} AS s WHERE NOT _deleted{also}
