package resize_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/api/v1alpha1"
	. "attune.io/attune/resize"
)

// Measurements from before a resize count in the size of a record. With the most and longest ones, the records still
// stay below their part of the object.
func TestMeasurementsCountInTheSizeOfRecords(t *testing.T) {
	record := recorded(desired)
	for i := range 16 {
		record.Measured = append(record.Measured, v1alpha1.Measurement{Name: fmt.Sprint(strings.Repeat("x", 61), i/10, i%10), Value: "-1.7976931348623157e+308"})
	}
	pod := running(prior)
	plan := mustPlan(t, pod, wish(desired))
	var in GateInput
	for RecordsFull(pod, plan, in) == nil {
		in.Status.Records = append(in.Status.Records, record)
	}
	require.Greater(t, len(in.Status.Records), 10)
	require.Less(t, len(in.Status.Records), v1alpha1.MaxRecords)
	size, err := json.Marshal(in.Status.Records)
	require.NoError(t, err)
	assert.LessOrEqual(t, len(size), RecordsBytes)
}
