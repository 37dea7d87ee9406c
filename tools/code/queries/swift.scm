; Definitions of Swift.
(class_declaration declaration_kind: ["class" "actor"] name: (_) @name) @definition.class
(class_declaration declaration_kind: "struct" name: (_) @name) @definition.class
(class_declaration declaration_kind: "enum" name: (_) @name) @definition.type
(class_declaration declaration_kind: "extension" name: (_) @name (#set! prefix "extension ")) @definition.type
(protocol_declaration name: (_) @name) @definition.interface
(function_declaration name: (_) @name) @definition.function
(protocol_function_declaration name: (_) @name) @definition.function
(init_declaration (#set! name "init")) @definition.method
(deinit_declaration (#set! name "deinit")) @definition.method
(subscript_declaration (#set! name "subscript")) @definition.method
(typealias_declaration name: (type_identifier) @name) @definition.type
(source_file (property_declaration (value_binding_pattern "let") name: (pattern bound_identifier: (simple_identifier) @name)) @definition.constant)
(class_body (property_declaration (modifiers (property_modifier) @modifier) (value_binding_pattern "let")
  name: (pattern bound_identifier: (simple_identifier) @name)) @definition.constant (#eq? @modifier "static"))
