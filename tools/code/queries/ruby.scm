; Definitions of Ruby (TOOLS.md 4.2). `class << self` adds a level, singleton methods have their receiver before the name.
(class name: (_) @name) @definition.class
(singleton_class value: (_) @name (#set! prefix "<< ")) @definition.class
(module name: (_) @name) @definition.module
(method name: (_) @name) @definition.method
(singleton_method object: (_) @receiver name: (_) @name) @definition.method
(assignment left: (constant) @name) @definition.constant
(assignment left: (scope_resolution name: (constant)) @name) @definition.constant
(assignment left: (left_assignment_list (constant) @name @definition.constant))
(assignment left: (left_assignment_list (scope_resolution name: (constant)) @name @definition.constant))
(operator_assignment left: (constant) @name) @definition.constant
(operator_assignment left: (scope_resolution name: (constant)) @name) @definition.constant
; What lacks its `end`.
(ERROR "class" . [(constant) (scope_resolution)] @name @definition.class) @until
(ERROR "module" . [(constant) (scope_resolution)] @name @definition.module) @until
(ERROR "def" . [(identifier) (constant) (setter) (operator)] @name @definition.method)
