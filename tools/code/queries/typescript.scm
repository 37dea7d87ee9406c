; Definitions of TypeScript.
(class_declaration name: (_) @name) @definition.class
(function_declaration name: (identifier) @name) @definition.function
(generator_function_declaration name: (identifier) @name) @definition.function
(method_definition name: (_) @name) @definition.method
(lexical_declaration (variable_declarator name: (identifier) @name value: [(arrow_function) (function_expression) (generator_function)])) @definition.function
(variable_declaration (variable_declarator name: (identifier) @name value: [(arrow_function) (function_expression) (generator_function)])) @definition.function
(lexical_declaration (variable_declarator name: (identifier) @name value: (class))) @definition.class
(assignment_expression left: (member_expression property: (property_identifier)) @name right: [(arrow_function) (function_expression) (generator_function)]) @definition.function
(program (lexical_declaration (variable_declarator name: (identifier) @name)) @definition.constant
  (#match? @name "^_?[A-Z][A-Z0-9_]*$"))
(program (export_statement (lexical_declaration (variable_declarator name: (identifier) @name)) @definition.constant)
  (#match? @name "^_?[A-Z][A-Z0-9_]*$"))
(class_body (public_field_definition name: (_) @name value: [(arrow_function) (function_expression)]) @definition.method)
(pair key: (property_identifier) @name value: [(arrow_function) (function_expression)]) @definition.method
(abstract_class_declaration name: (_) @name) @definition.class
(abstract_method_signature name: (_) @name) @definition.method
(class_body (method_signature name: (_) @name) @definition.method)
(interface_body (method_signature name: (_) @name) @definition.method)
(interface_declaration name: (_) @name) @definition.interface
(type_alias_declaration name: (_) @name) @definition.type
(enum_declaration name: (_) @name) @definition.type
(function_signature name: (identifier) @name) @definition.function
(internal_module name: (_) @name) @definition.module
(module name: (_) @name) @definition.module
