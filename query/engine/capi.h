// The part of DuckDB's C API (1.5.6) that this package calls. The library comes
// with github.com/duckdb/duckdb-go-bindings, whose header another module's cgo
// cannot name.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

typedef uint64_t idx_t;
typedef enum { DuckDBSuccess = 0, DuckDBError = 1 } duckdb_state;
typedef enum {
	DUCKDB_PENDING_RESULT_READY = 0,
	DUCKDB_PENDING_RESULT_NOT_READY = 1,
	DUCKDB_PENDING_ERROR = 2,
	DUCKDB_PENDING_NO_TASKS_AVAILABLE = 3,
} duckdb_pending_state;

#define FB_HANDLE(name) typedef struct _##name { void *internal_ptr; } *name
FB_HANDLE(duckdb_database);
FB_HANDLE(duckdb_connection);
FB_HANDLE(duckdb_config);
FB_HANDLE(duckdb_prepared_statement);
FB_HANDLE(duckdb_pending_result);
FB_HANDLE(duckdb_logical_type);
FB_HANDLE(duckdb_data_chunk);
FB_HANDLE(duckdb_vector);
FB_HANDLE(duckdb_selection_vector);
FB_HANDLE(duckdb_value);
FB_HANDLE(duckdb_client_context);
FB_HANDLE(duckdb_table_function);
FB_HANDLE(duckdb_bind_info);
FB_HANDLE(duckdb_init_info);
FB_HANDLE(duckdb_function_info);
FB_HANDLE(duckdb_scalar_function);
FB_HANDLE(duckdb_scalar_function_set);
FB_HANDLE(duckdb_cast_function);
FB_HANDLE(duckdb_error_data);
FB_HANDLE(duckdb_arrow_options);
FB_HANDLE(duckdb_arrow_converted_schema);

typedef struct {
	union {
		struct {
			uint32_t length;
			char prefix[4];
			char *ptr;
		} pointer;
		struct {
			uint32_t length;
			char inlined[12];
		} inlined;
	} value;
} duckdb_string_t;

typedef struct {
	uint64_t offset;
	uint64_t length;
} duckdb_list_entry;

typedef struct {
	idx_t deprecated_column_count;
	idx_t deprecated_row_count;
	idx_t deprecated_rows_changed;
	void *deprecated_columns;
	char *deprecated_error_message;
	void *internal_data;
} duckdb_result;

// Arrow's C data interface.
struct ArrowSchema {
	const char *format;
	const char *name;
	const char *metadata;
	int64_t flags;
	int64_t n_children;
	struct ArrowSchema **children;
	struct ArrowSchema *dictionary;
	void (*release)(struct ArrowSchema *);
	void *private_data;
};

struct ArrowArray {
	int64_t length;
	int64_t null_count;
	int64_t offset;
	int64_t n_buffers;
	int64_t n_children;
	const void **buffers;
	struct ArrowArray **children;
	struct ArrowArray *dictionary;
	void (*release)(struct ArrowArray *);
	void *private_data;
};

typedef void (*duckdb_delete_callback_t)(void *data);
typedef void (*duckdb_table_function_bind_t)(duckdb_bind_info info);
typedef void (*duckdb_table_function_init_t)(duckdb_init_info info);
typedef void (*duckdb_table_function_t)(duckdb_function_info info, duckdb_data_chunk output);
typedef void (*duckdb_scalar_function_t)(duckdb_function_info info, duckdb_data_chunk input, duckdb_vector output);
typedef void (*duckdb_scalar_function_bind_t)(duckdb_bind_info info);
typedef void *(*duckdb_copy_callback_t)(void *data);
typedef bool (*duckdb_cast_function_t)(duckdb_function_info info, idx_t count, duckdb_vector input, duckdb_vector output);

extern const char *duckdb_library_version(void);
extern void duckdb_free(void *ptr);
extern idx_t duckdb_vector_size(void);

extern duckdb_state duckdb_open_ext(const char *path, duckdb_database *out, duckdb_config config, char **out_error);
extern void duckdb_close(duckdb_database *database);
extern duckdb_state duckdb_create_config(duckdb_config *out);
extern duckdb_state duckdb_set_config(duckdb_config config, const char *name, const char *option);
extern void duckdb_destroy_config(duckdb_config *config);
extern duckdb_state duckdb_connect(duckdb_database database, duckdb_connection *out);
extern void duckdb_disconnect(duckdb_connection *connection);
extern void duckdb_interrupt(duckdb_connection connection);
extern void duckdb_connection_get_client_context(duckdb_connection connection, duckdb_client_context *out);
extern idx_t duckdb_client_context_get_connection_id(duckdb_client_context context);
extern void duckdb_destroy_client_context(duckdb_client_context *context);
extern void duckdb_connection_get_arrow_options(duckdb_connection connection, duckdb_arrow_options *out);
extern void duckdb_destroy_arrow_options(duckdb_arrow_options *options);

extern duckdb_state duckdb_query(duckdb_connection connection, const char *query, duckdb_result *out);
extern void duckdb_destroy_result(duckdb_result *result);
extern idx_t duckdb_column_count(duckdb_result *result);
extern const char *duckdb_column_name(duckdb_result *result, idx_t col);
extern duckdb_logical_type duckdb_column_logical_type(duckdb_result *result, idx_t col);
extern const char *duckdb_result_error(duckdb_result *result);
extern int duckdb_result_error_type(duckdb_result *result);
extern duckdb_data_chunk duckdb_fetch_chunk(duckdb_result result);

extern duckdb_state duckdb_prepare(duckdb_connection connection, const char *query, duckdb_prepared_statement *out);
extern void duckdb_destroy_prepare(duckdb_prepared_statement *statement);
extern const char *duckdb_prepare_error(duckdb_prepared_statement statement);
extern idx_t duckdb_nparams(duckdb_prepared_statement statement);
extern const char *duckdb_parameter_name(duckdb_prepared_statement statement, idx_t index);
extern duckdb_logical_type duckdb_param_logical_type(duckdb_prepared_statement statement, idx_t index);
extern duckdb_state duckdb_clear_bindings(duckdb_prepared_statement statement);
extern duckdb_state duckdb_bind_value(duckdb_prepared_statement statement, idx_t index, duckdb_value value);
extern int duckdb_prepared_statement_type(duckdb_prepared_statement statement);
extern idx_t duckdb_prepared_statement_column_count(duckdb_prepared_statement statement);
extern const char *duckdb_prepared_statement_column_name(duckdb_prepared_statement statement, idx_t col);
extern duckdb_logical_type duckdb_prepared_statement_column_logical_type(duckdb_prepared_statement statement, idx_t col);
extern duckdb_state duckdb_pending_prepared_streaming(duckdb_prepared_statement statement, duckdb_pending_result *out);
extern void duckdb_destroy_pending(duckdb_pending_result *pending);
extern const char *duckdb_pending_error(duckdb_pending_result pending);
extern duckdb_pending_state duckdb_pending_execute_task(duckdb_pending_result pending);
extern duckdb_state duckdb_execute_pending(duckdb_pending_result pending, duckdb_result *out);

extern duckdb_logical_type duckdb_create_logical_type(int type);
extern void duckdb_destroy_logical_type(duckdb_logical_type *type);
extern void duckdb_logical_type_set_alias(duckdb_logical_type type, const char *alias);
extern char *duckdb_logical_type_get_alias(duckdb_logical_type type);
extern duckdb_logical_type duckdb_create_list_type(duckdb_logical_type type);
extern duckdb_logical_type duckdb_create_array_type(duckdb_logical_type type, idx_t size);
extern duckdb_logical_type duckdb_create_map_type(duckdb_logical_type key, duckdb_logical_type value);
extern duckdb_logical_type duckdb_create_struct_type(duckdb_logical_type *types, const char **names, idx_t count);
extern duckdb_logical_type duckdb_create_decimal_type(uint8_t width, uint8_t scale);
extern int duckdb_get_type_id(duckdb_logical_type type);
extern uint8_t duckdb_decimal_width(duckdb_logical_type type);
extern uint8_t duckdb_decimal_scale(duckdb_logical_type type);
extern duckdb_logical_type duckdb_list_type_child_type(duckdb_logical_type type);
extern duckdb_logical_type duckdb_array_type_child_type(duckdb_logical_type type);
extern idx_t duckdb_array_type_array_size(duckdb_logical_type type);
extern duckdb_logical_type duckdb_map_type_key_type(duckdb_logical_type type);
extern duckdb_logical_type duckdb_map_type_value_type(duckdb_logical_type type);
extern idx_t duckdb_struct_type_child_count(duckdb_logical_type type);
extern char *duckdb_struct_type_child_name(duckdb_logical_type type, idx_t index);
extern duckdb_logical_type duckdb_struct_type_child_type(duckdb_logical_type type, idx_t index);
extern idx_t duckdb_union_type_member_count(duckdb_logical_type type);
extern char *duckdb_union_type_member_name(duckdb_logical_type type, idx_t index);
extern duckdb_logical_type duckdb_union_type_member_type(duckdb_logical_type type, idx_t index);

extern void duckdb_destroy_data_chunk(duckdb_data_chunk *chunk);
extern idx_t duckdb_data_chunk_get_column_count(duckdb_data_chunk chunk);
extern duckdb_vector duckdb_data_chunk_get_vector(duckdb_data_chunk chunk, idx_t col);
extern idx_t duckdb_data_chunk_get_size(duckdb_data_chunk chunk);
extern void duckdb_data_chunk_set_size(duckdb_data_chunk chunk, idx_t size);
extern duckdb_logical_type duckdb_vector_get_column_type(duckdb_vector vector);
extern void *duckdb_vector_get_data(duckdb_vector vector);
extern uint64_t *duckdb_vector_get_validity(duckdb_vector vector);
extern void duckdb_vector_ensure_validity_writable(duckdb_vector vector);
extern void duckdb_vector_assign_string_element_len(duckdb_vector vector, idx_t index, const char *str, idx_t len);
extern duckdb_vector duckdb_struct_vector_get_child(duckdb_vector vector, idx_t index);
extern duckdb_selection_vector duckdb_create_selection_vector(idx_t size);
extern void duckdb_destroy_selection_vector(duckdb_selection_vector selection);
extern uint32_t *duckdb_selection_vector_get_data_ptr(duckdb_selection_vector selection);
extern void duckdb_slice_vector(duckdb_vector vector, duckdb_selection_vector selection, idx_t len);
extern void duckdb_vector_reference_vector(duckdb_vector to, duckdb_vector from);

extern void duckdb_destroy_value(duckdb_value *value);
typedef struct {
	uint64_t lower;
	int64_t upper;
} duckdb_hugeint;
extern duckdb_value duckdb_create_int8(int8_t v);
extern duckdb_value duckdb_create_int16(int16_t v);
extern duckdb_value duckdb_create_int32(int32_t v);
extern duckdb_value duckdb_create_uint8(uint8_t v);
extern duckdb_value duckdb_create_uint16(uint16_t v);
extern duckdb_value duckdb_create_uint32(uint32_t v);
extern duckdb_value duckdb_create_hugeint(duckdb_hugeint v);
extern duckdb_value duckdb_create_float(float v);
extern duckdb_value duckdb_create_varchar_length(const char *text, idx_t length);
extern duckdb_value duckdb_create_list_value(duckdb_logical_type type, duckdb_value *values, idx_t count);
extern duckdb_value duckdb_create_blob(const uint8_t *data, idx_t length);
extern duckdb_value duckdb_create_bool(bool v);
extern duckdb_value duckdb_create_int64(int64_t v);
extern duckdb_value duckdb_create_uint64(uint64_t v);
extern duckdb_value duckdb_create_double(double v);
extern duckdb_value duckdb_create_null_value(void);
extern char *duckdb_get_varchar(duckdb_value value);
extern bool duckdb_is_null_value(duckdb_value value);

extern duckdb_table_function duckdb_create_table_function(void);
extern void duckdb_destroy_table_function(duckdb_table_function *f);
extern void duckdb_table_function_set_name(duckdb_table_function f, const char *name);
extern void duckdb_table_function_add_parameter(duckdb_table_function f, duckdb_logical_type type);
extern void duckdb_table_function_add_named_parameter(duckdb_table_function f, const char *name, duckdb_logical_type type);
extern void duckdb_table_function_set_extra_info(duckdb_table_function f, void *info, duckdb_delete_callback_t destroy);
extern void duckdb_table_function_set_bind(duckdb_table_function f, duckdb_table_function_bind_t bind);
extern void duckdb_table_function_set_init(duckdb_table_function f, duckdb_table_function_init_t init);
extern void duckdb_table_function_set_local_init(duckdb_table_function f, duckdb_table_function_init_t init);
extern void duckdb_table_function_set_function(duckdb_table_function f, duckdb_table_function_t function);
extern void duckdb_table_function_supports_projection_pushdown(duckdb_table_function f, bool pushdown);
extern duckdb_state duckdb_register_table_function(duckdb_connection connection, duckdb_table_function f);
extern void *duckdb_bind_get_extra_info(duckdb_bind_info info);
extern void duckdb_table_function_get_client_context(duckdb_bind_info info, duckdb_client_context *out);
extern void duckdb_bind_add_result_column(duckdb_bind_info info, const char *name, duckdb_logical_type type);
extern idx_t duckdb_bind_get_parameter_count(duckdb_bind_info info);
extern duckdb_value duckdb_bind_get_parameter(duckdb_bind_info info, idx_t index);
extern duckdb_value duckdb_bind_get_named_parameter(duckdb_bind_info info, const char *name);
extern void duckdb_bind_set_bind_data(duckdb_bind_info info, void *data, duckdb_delete_callback_t destroy);
extern void duckdb_bind_set_cardinality(duckdb_bind_info info, idx_t cardinality, bool is_exact);
extern void duckdb_bind_set_error(duckdb_bind_info info, const char *error);
extern void *duckdb_init_get_bind_data(duckdb_init_info info);
extern void duckdb_init_set_init_data(duckdb_init_info info, void *data, duckdb_delete_callback_t destroy);
extern idx_t duckdb_init_get_column_count(duckdb_init_info info);
extern idx_t duckdb_init_get_column_index(duckdb_init_info info, idx_t index);
extern void duckdb_init_set_max_threads(duckdb_init_info info, idx_t threads);
extern void duckdb_init_set_error(duckdb_init_info info, const char *error);
extern void *duckdb_function_get_init_data(duckdb_function_info info);
extern void *duckdb_function_get_local_init_data(duckdb_function_info info);
extern void duckdb_function_set_error(duckdb_function_info info, const char *error);

extern duckdb_scalar_function duckdb_create_scalar_function(void);
extern void duckdb_destroy_scalar_function(duckdb_scalar_function *f);
extern void duckdb_scalar_function_set_name(duckdb_scalar_function f, const char *name);
extern void duckdb_scalar_function_set_special_handling(duckdb_scalar_function f);
extern void duckdb_scalar_function_add_parameter(duckdb_scalar_function f, duckdb_logical_type type);
extern void duckdb_scalar_function_set_return_type(duckdb_scalar_function f, duckdb_logical_type type);
extern void duckdb_scalar_function_set_extra_info(duckdb_scalar_function f, void *info, duckdb_delete_callback_t destroy);
extern void duckdb_scalar_function_set_function(duckdb_scalar_function f, duckdb_scalar_function_t function);
extern void *duckdb_scalar_function_get_extra_info(duckdb_function_info info);
extern void duckdb_scalar_function_set_bind(duckdb_scalar_function f, duckdb_scalar_function_bind_t bind);
extern void duckdb_scalar_function_bind_set_error(duckdb_bind_info info, const char *error);
extern void *duckdb_scalar_function_bind_get_extra_info(duckdb_bind_info info);
extern void duckdb_scalar_function_set_bind_data(duckdb_bind_info info, void *data, duckdb_delete_callback_t destroy);
extern void duckdb_scalar_function_set_bind_data_copy(duckdb_bind_info info, duckdb_copy_callback_t copy);
extern void *duckdb_scalar_function_get_bind_data(duckdb_function_info info);
extern void duckdb_scalar_function_get_client_context(duckdb_bind_info info, duckdb_client_context *out);
extern void duckdb_scalar_function_set_error(duckdb_function_info info, const char *error);
extern duckdb_scalar_function_set duckdb_create_scalar_function_set(const char *name);
extern void duckdb_destroy_scalar_function_set(duckdb_scalar_function_set *set);
extern duckdb_state duckdb_add_scalar_function_to_set(duckdb_scalar_function_set set, duckdb_scalar_function f);
extern duckdb_state duckdb_register_scalar_function_set(duckdb_connection connection, duckdb_scalar_function_set set);

extern duckdb_cast_function duckdb_create_cast_function(void);
extern void duckdb_destroy_cast_function(duckdb_cast_function *f);
extern void duckdb_cast_function_set_source_type(duckdb_cast_function f, duckdb_logical_type type);
extern void duckdb_cast_function_set_target_type(duckdb_cast_function f, duckdb_logical_type type);
extern void duckdb_cast_function_set_implicit_cast_cost(duckdb_cast_function f, int64_t cost);
extern void duckdb_cast_function_set_function(duckdb_cast_function f, duckdb_cast_function_t function);
extern void duckdb_cast_function_set_extra_info(duckdb_cast_function f, void *info, duckdb_delete_callback_t destroy);
extern void *duckdb_cast_function_get_extra_info(duckdb_function_info info);
extern void duckdb_cast_function_set_error(duckdb_function_info info, const char *error);
extern duckdb_state duckdb_register_logical_type(duckdb_connection connection, duckdb_logical_type type, void *info);
extern duckdb_state duckdb_register_cast_function(duckdb_connection connection, duckdb_cast_function f);

extern duckdb_error_data duckdb_to_arrow_schema(duckdb_arrow_options options, duckdb_logical_type *types, const char **names, idx_t count, struct ArrowSchema *out);
extern duckdb_error_data duckdb_data_chunk_to_arrow(duckdb_arrow_options options, duckdb_data_chunk chunk, struct ArrowArray *out);
extern duckdb_error_data duckdb_schema_from_arrow(duckdb_connection connection, struct ArrowSchema *schema, duckdb_arrow_converted_schema *out);
extern duckdb_error_data duckdb_data_chunk_from_arrow(duckdb_connection connection, struct ArrowArray *array, duckdb_arrow_converted_schema schema, duckdb_data_chunk *out);
extern void duckdb_destroy_arrow_converted_schema(duckdb_arrow_converted_schema *schema);
extern void duckdb_destroy_error_data(duckdb_error_data *error);
extern bool duckdb_error_data_has_error(duckdb_error_data error);
extern const char *duckdb_error_data_message(duckdb_error_data error);
