package statement

import (
	"strings"
	"testing"
)

// TestShape checks which values a shape leaves out.
func TestShape(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{
		{`SELECT 1`, `SELECT 1`},
		{`select a from t where id = 17`, `select a from t where id = #n`},
		{`select a from t where id=17 and name<>'it''s' limit 5`, `select a from t where id=#n and name<>#s limit 5`},
		{`select a from t where 17 = id`, `select a from t where 17 = id`},
		{`select a from t where x > 1.5 or x <= 1e3 or x < 1234567890`, `select a from t where x > 1.5 or x <= 1e3 or x < 1234567890`},
		{`select a from t where x = E'a' or x = $$b$$ or x = -1`, `select a from t where x = E'a' or x = $$b$$ or x = -1`},
		{`select s['a'], l[1] from t where s['a'] = 'b' /* = 5 */`, `select s['a'], l[1] from t where s['a'] = #s /* = 5 */`},
		{`select f(a := 5), b => 6 from t`, `select f(a := 5), b => 6 from t`},
		{`select "= 5" from t where a >= '= 5'`, `select "= 5" from t where a >= #s`},
		{`select a where a = 'unclosed`, `select a where a = 'unclosed`},
	} {
		if got := strings.ReplaceAll(Shape(tt.text), "\x00", "#"); got != tt.want {
			t.Errorf("%s\nhas shape %s\nwant      %s", tt.text, got, tt.want)
		}
	}
}
