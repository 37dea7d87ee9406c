; Definitions of Java.
(class_declaration name: (identifier) @name) @definition.class
(record_declaration name: (identifier) @name) @definition.class
(interface_declaration name: (identifier) @name) @definition.interface
(annotation_type_declaration name: (identifier) @name) @definition.interface
(enum_declaration name: (identifier) @name) @definition.type
(method_declaration name: (identifier) @name) @definition.method
(constructor_declaration name: (identifier) @name) @definition.method
(compact_constructor_declaration name: (identifier) @name) @definition.method
(annotation_type_element_declaration name: (identifier) @name) @definition.method
(module_declaration name: (_) @name) @definition.module
(constant_declaration declarator: (variable_declarator name: (identifier) @name)) @definition.constant
(field_declaration (modifiers) @modifiers declarator: (variable_declarator name: (identifier) @name)
  (#match? @modifiers "static") (#match? @modifiers "final")) @definition.constant
