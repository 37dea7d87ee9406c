; Definitions of PHP.
(namespace_definition name: (namespace_name) @name) @definition.module
(class_declaration name: (name) @name) @definition.class
(trait_declaration name: (name) @name) @definition.module
(interface_declaration name: (name) @name) @definition.interface
(enum_declaration name: (name) @name) @definition.type
(function_definition name: (name) @name) @definition.function
(method_declaration name: (name) @name) @definition.method
(const_declaration (const_element (name) @name)) @definition.constant
((function_call_expression
  function: (name) @called
  arguments: (arguments . (argument (string (string_content) @name)))) @definition.constant
  (#eq? @called "define"))
