DROP TABLE {classes}
