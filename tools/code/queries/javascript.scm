; Definitions of JavaScript, JSX included.
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
(class_body (field_definition property: (_) @name value: [(arrow_function) (function_expression)]) @definition.method)
(pair key: (property_identifier) @name value: [(arrow_function) (function_expression)]) @definition.method
