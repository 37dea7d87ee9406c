; Definitions of Kotlin.
(class_declaration (modifiers (class_modifier) @modifier) "class" name: (identifier) @name
  (#eq? @modifier "enum")) @definition.type
(class_declaration "class" name: (identifier) @name) @definition.class
(class_declaration "interface" name: (identifier) @name) @definition.interface
(object_declaration name: (identifier) @name) @definition.class
(companion_object (#set! name "companion")) @definition.class
(companion_object name: (identifier) @name) @definition.class
(function_declaration name: (identifier) @name) @definition.function
(secondary_constructor (#set! name "constructor")) @definition.method
(type_alias type: (identifier) @name) @definition.type
(property_declaration (modifiers (property_modifier) @modifier) (variable_declaration (identifier) @name)
  (#eq? @modifier "const")) @definition.constant
