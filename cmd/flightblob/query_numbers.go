package main

import (
	"math/big"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// appendDecimal writes all digits, those behind the point to the type's scale.
func appendDecimal(dst []byte, v *big.Int, t arrow.DataType) []byte {
	scale := 0
	if d, ok := t.(arrow.DecimalType); ok {
		scale = int(d.GetScale())
	}
	return append(dst, point(v.String(), scale)...)
}

// point puts a decimal point before the last digits of a whole number, or noughts
// behind it where there are less than none.
func point(digits string, scale int) string {
	sign := ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	switch {
	case scale < 0 && digits != "0":
		return sign + digits + strings.Repeat("0", -scale)
	case scale <= 0:
		return sign + digits
	case len(digits) <= scale:
		digits = strings.Repeat("0", scale-len(digits)+1) + digits
	}
	return sign + digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
}

// infinity names the numbers that SQL takes for times without end; "" for others.
func infinity(v, most int64) string {
	switch v {
	case most:
		return "infinity"
	case -most:
		return "-infinity"
	}
	return ""
}

// shortTime leaves out noughts at the end of parts of seconds.
func shortTime(text string) string {
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// interval writes an interval as SQL reads it.
func interval(months, days, nanoseconds int64) string {
	var parts []string
	add := func(n int64, unit string) {
		if n != 0 {
			if n != 1 && n != -1 {
				unit += "s"
			}
			parts = append(parts, strconv.FormatInt(n, 10)+" "+unit)
		}
	}
	add(months/12, "year")
	add(months%12, "month")
	add(days, "day")
	if nanoseconds != 0 || len(parts) == 0 {
		parts = append(parts, clock(nanoseconds))
	}
	return strings.Join(parts, " ")
}

// clock writes nanoseconds as hours, minutes and seconds.
func clock(n int64) string {
	sign, u := "", uint64(n)
	if n < 0 {
		sign, u = "-", -u
	}
	two := func(v uint64) string {
		if v < 10 {
			return "0" + strconv.FormatUint(v, 10)
		}
		return strconv.FormatUint(v, 10)
	}
	seconds := u / 1e9
	text := sign + two(seconds/3600) + ":" + two(seconds/60%60) + ":" + two(seconds%60)
	if part := u % 1e9; part > 0 {
		text += "." + strings.TrimRight(strconv.FormatUint(1e9+part, 10)[1:], "0")
	}
	return text
}

// duration writes seconds and parts of them with their unit: 1.5s.
func duration(v int64, t arrow.DataType) string {
	scale := 0
	if d, ok := t.(*arrow.DurationType); ok {
		scale = int(d.Unit) * 3
	}
	return shortTime(point(strconv.FormatInt(v, 10), scale)) + "s"
}
