; Definitions of Python. A function right inside a class is a method.
(class_definition name: (identifier) @name) @definition.class
(function_definition name: (identifier) @name) @definition.function
(type_alias_statement left: (type) @name) @definition.type
(module (expression_statement (assignment left: (identifier) @name)) @definition.constant
  (#match? @name "^_?[A-Z][A-Z0-9_]*$"))
(class_definition body: (block (expression_statement (assignment left: (identifier) @name)) @definition.constant)
  (#match? @name "^_?[A-Z][A-Z0-9_]*$"))
