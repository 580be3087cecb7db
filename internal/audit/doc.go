// Package audit keeps what was run and who allowed it, so that a change of it shows.
//
// A folder holds one file for each writer, which is locked while it writes: lines of JSON, each with the hash of the one
// before and a signature. Beside it lies the file's head, signed too, which says how many records there are; a third
// kind of file, of the same make, lists the writers. So [Verify] finds every edit, removal and reordering of a record,
// a file cut short, and a file that is gone. A crash leaves at most a torn last line, which is told and is no damage.
//
// What it cannot find: who holds the folder's key can write everything anew, and who can write the folder can put back
// an older state of all of it. Against both, note a head and the key's fingerprint elsewhere, and have Verify compare.
//
// It decides nothing and hides nothing by itself: texts pass the mask that it is given before they are written, and the
// digest of what was there is written beside. Without a mask no output is kept at all.
package audit
