SELECT * FROM {staging} WHERE NOT _deleted
